"""A Django project as small as one that meets a pooler: the applications that Django brings, and one of one's own."""

import os
from urllib.parse import urlsplit

place = urlsplit(os.environ["DATABASE_URL"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": place.path.lstrip("/"),
        "USER": place.username,
        "PASSWORD": place.password,
        "HOST": place.hostname,
        "PORT": place.port,
        "CONN_MAX_AGE": None,
    }
}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "shop",
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "no secret"
USE_TZ = True
# Pages are not served here.
SILENCED_SYSTEM_CHECKS = ["admin.E403", "admin.E408", "admin.E409", "admin.E410"]
