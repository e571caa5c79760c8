"""What the console remembers on disk: samples and changes, in Parquet, without another database."""
