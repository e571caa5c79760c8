"""Records that do not fit: `letters` says what one is, `letterbox` sorts the records of each batch, `replay`
sends letters through again.
"""
