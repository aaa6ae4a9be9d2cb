"""The static model, the indexer and embedding spaces."""
