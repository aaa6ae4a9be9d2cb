"""Puts memdb in the place of the repositories in the tests of Strands: a plugin for them."""

import strands.session.file_session_manager
from strands.session.repository_session_manager import RepositorySessionManager

from memdb.integrations.strands import MemdbSessionRepository


class MockedSessionRepository(MemdbSessionRepository):
    """Takes the arguments of the repository that the tests bring."""

    def __init__(self):
        """Keep all in memory."""
        super().__init__(":memory:")

    @property
    def sessions(self):
        """What the tests look into: the sessions by their ids."""
        found = self._scope.items.list(("strands", "sessions"))
        return {one.key: self.read_session(one.key) for one in found}


class FileSessionManager(MemdbSessionRepository, RepositorySessionManager):
    """Takes the arguments of the class that keeps sessions in files."""

    def __init__(self, session_id, storage_dir=None):
        """Keep all in a file of the folder."""
        MemdbSessionRepository.__init__(self, f"{storage_dir}/sessions.db")
        RepositorySessionManager.__init__(self, session_id, self)

    def _get_session_path(self, session_id):
        self.read_session(session_id)

    def _get_agent_path(self, session_id, agent_id):
        self.read_agent(session_id, agent_id)

    def _get_message_path(self, session_id, agent_id, message_id):
        self.read_message(session_id, agent_id, message_id)


def pytest_configure(config):
    """Replace the classes before a test module imports them."""
    import tests.fixtures.mock_session_repository as fixture

    fixture.MockedSessionRepository = MockedSessionRepository
    strands.session.file_session_manager.FileSessionManager = FileSessionManager
