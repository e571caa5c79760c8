"""Record batches as they lie on the wire and on disk: headers, records, compression, control batches."""
