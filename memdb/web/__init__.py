"""The page of a file (`memdb web`), and the JSON API, also for programs (`memdb serve`)."""
