"""An application with one queue, for the compose file."""

from penstock import App
from penstock.worker import Delivery

app = App()


@app.handler("emails", concurrency=20, timeout=30)
async def send(message: Delivery) -> None:
    print("sending to", message.payload["to"])
