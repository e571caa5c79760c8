"""What ``spark-submit`` runs: the command ``barnabas``, on the cluster that was submitted to."""

from barnabas.cli.main import main

if __name__ == "__main__":
    main()
