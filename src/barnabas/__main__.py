"""``python -m barnabas``: the command ``barnabas``, where no script of it is on the path."""

from barnabas.cli.main import main

if __name__ == "__main__":
    main()
