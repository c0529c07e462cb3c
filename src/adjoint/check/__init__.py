"""Independent checks of derivatives: finite differences, `check_grads`, `compare`."""
