"""A web console for Howdah: models, trainings, predictions and SQL in a browser, as the database's own users.

`app.py` has the pages' addresses and what surrounds every request; `sessions.py` the logins; `ask.py` how a page asks
the database, and shows what it asked; `views/` a file for each part; `csvfile.py` reads the files of uploads;
`figures.py` and `drawings.py` numbers and pictures.
"""

__version__ = "3.6.0"
