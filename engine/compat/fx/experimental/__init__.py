"""`torch.fx.experimental`: tracing state; nothing is ever traced here."""
