"""Items: values under a namespace and a key, what frameworks call a store."""
