"""fjit: plain NumPy functions, traced, fused and compiled without a change of meaning."""

__all__: list[str] = []
