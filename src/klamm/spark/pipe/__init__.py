"""Jobs that read topics, transform their rows and write topics, described by a file or by options."""
