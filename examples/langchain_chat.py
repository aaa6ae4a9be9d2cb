"""
A LangChain conversation in a memdb file, with a scripted model.

    python examples/langchain_chat.py [FILE]
"""

import sys

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage

import memdb
from memdb.integrations.langchain import MemdbChatMessageHistory, MemdbRetriever

path = sys.argv[1] if len(sys.argv) > 1 else ":memory:"
model = FakeListChatModel(responses=["Noted: Oslo, 3 May.", "On 3 May."])
with memdb.open(path) as db:
    history = MemdbChatMessageHistory("trip", db, user="ann")
    for question in ("We fly to Oslo on 3 May.", "When do we fly?"):
        history.add_message(HumanMessage(question))
        history.add_message(model.invoke(history.messages))
    print("\n".join(f"{message.type}: {message.content}" for message in history.messages))
    for document in MemdbRetriever(source=db, user="ann", k=1).invoke("flight to Oslo"):
        print(document.page_content, document.metadata["session"], document.metadata["seq"])
