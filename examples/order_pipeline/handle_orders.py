"""Handles the orders that wait, so that they are finished. Your worker does this in real life."""

from penstock import Client

with Client() as client:
    while orders := client.claim("orders", 100):
        client.ack_many(orders)
