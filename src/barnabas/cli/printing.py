"""What may be printed where a terminal obeys control characters."""


def printable(text: str) -> str:
    """The text without control characters that a terminal would obey; line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode() for one in text
    )
