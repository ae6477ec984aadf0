"""Commands of operators to workers: quiet, resume and stop."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Final

from penstock.commands.write.workers import WorkerCommand, command_worker
from penstock.model.monitoring import Heartbeat
from penstock.server.auth.worker_access import only_queue, operated_worker
from penstock.server.ui.actions import Act, Deed, Field, Question
from penstock.server.ui.formats import ago
from penstock.server.ui.visits import Visit, refused


class WorkerAct(Act):
    """A command to one worker, which the form names."""

    command: ClassVar[WorkerCommand]
    danger: ClassVar[bool] = False

    async def ask(self, visit: Visit) -> Question:
        worker = await self._worker(visit)
        when = "It gets the command at once, or with its next report, within 10 seconds."
        if not worker.alive:
            when = f"It was last seen {ago(worker.seen_at)}, and gets the command if it reports."
        return Question(
            title=f"{self.command.capitalize()} worker {worker.worker}",
            button=self.command.capitalize(),
            back="/workers",
            text=[self.effect(), when],
            count=worker.running,
            unit="messages are in its handlers",
            facts={
                "Host": worker.hostname or "-",
                "Version": worker.version or "-",
                "Queues": ", ".join(worker.queues) or "-",
            },
            fields=[Field(name="worker", kind="hidden", value=worker.worker)],
            danger=self.danger,
        )

    async def do(self, visit: Visit) -> Deed:
        worker = await self._worker(visit)
        return Deed(
            command=command_worker(worker.worker, self.command),
            act=f"{self.command} worker",
            target=worker.worker,
            to="/workers",
            details={"queue": only_queue(worker)},
        )

    @abstractmethod
    def effect(self) -> str:
        """The effect of the command."""

    async def _worker(self, visit: Visit) -> Heartbeat:
        name = visit.asked("worker")
        if name is None:
            raise refused("worker", "", "the name of a worker")
        return await operated_worker(visit.principal, visit.run, name)


class Quiet(WorkerAct):
    path = "/workers/quiet"
    command = "quiet"

    def effect(self) -> str:
        return "It claims no more messages, and finishes those that it runs."


class ResumeWorker(WorkerAct):
    path = "/workers/resume"
    command = "resume"

    def effect(self) -> str:
        return "It claims messages again."


class Stop(WorkerAct):
    path = "/workers/stop"
    command = "stop"
    danger = True

    def effect(self) -> str:
        return (
            "It finishes the messages that it runs, within its grace period, and its process ends. "
            "A supervisor such as systemd or Kubernetes may start it again."
        )


ACTS: Final = (Quiet(), ResumeWorker(), Stop())
