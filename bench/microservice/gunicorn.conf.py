"""Gunicorn as published: 5 workers of 2 threads. Threads make it a gthread worker, which keeps connections alive."""

workers = 5
threads = 2
# Long enough that no connection of a load generator is closed while another side is measured.
keepalive = 75
# As Gunicorn's documentation says of containers: the heartbeat's file in memory, not on disk.
worker_tmp_dir = "/dev/shm"
accesslog = None
loglevel = "warning"
