"""The commands of the laboratory. `libranet.cli.main` names them and loads one when it is called."""
