"""arq workers: they are woken, they look into the database what is due, and do it (`service.usecases.compress`)."""
