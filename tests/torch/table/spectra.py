"""torch.fft, short-time transforms, windows, and the functions of torch.special."""

from __future__ import annotations

from .case import case, fails
from .inputs import c, f, i

# fmt: off
ONE = ("fft", "ifft", "hfft", "ihfft", "rfft", "irfft")
for name in ONE:
    real = name in ("rfft", "ihfft")
    case("", [f"torch.fft.{name}(x)", f"torch.fft.{name}(x, n=n)", f"torch.fft.{name}(x, dim=0)", f"torch.fft.{name}(x, norm=norm)"], x=[f(3, 4), f(2, 5)] if real else [f(3, 4), c(3, 4), c(2, 5)], n=[3, 7], norm=["ortho", "forward", "backward"])
case("", [f"torch.fft.{name}(x)" for name in ONE], x=[f(4, dtype="float32"), i(4)], grad=False)
for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn", "hfft2", "ihfft2", "hfftn", "ihfftn"):
    real = name in ("rfft2", "rfftn", "ihfft2", "ihfftn")
    more = [f"torch.fft.{name}(x, dim=(0, 1))", f"torch.fft.{name}(x, s=(3, 4), norm='ortho')"] if name.endswith("2") else [f"torch.fft.{name}(x, dim=(0, 2))", f"torch.fft.{name}(x, s=(4,), dim=(1,))"]
    case("", [f"torch.fft.{name}(x)", *more], x=[f(2, 3, 4)] if real else [c(2, 3, 4), f(2, 4, 4)])
case("", ["torch.fft.fftshift(x)", "torch.fft.ifftshift(x, dim=0)", "torch.fft.fftshift(x, (0, 1))"], x=[f(3, 4), c(2, 5)])
case("", ["torch.fft.fftfreq(n)", "torch.fft.fftfreq(n, d=0.5)", "torch.fft.rfftfreq(n)", "torch.fft.rfftfreq(n, d=2.0, dtype=torch.float64)"], n=[1, 4, 7])
fails("", ["torch.fft.fft(x, n=0)", "torch.fft.fft(x, n=-2)", "torch.fft.fft(x, dim=5)", "torch.fft.fft(x, norm='no')", "torch.fft.rfft(x.to(torch.complex128))", "torch.fft.fft2(x[0])", "torch.fft.fftn(x, s=(2, 2, 2))", "torch.fft.fftn(x, dim=(0, 0))", "torch.fft.fft('a')", "torch.fft.irfft(x, n=0)"], x=f(3, 4))
case("", ["torch.stft(x, 4, return_complex=True)", "torch.stft(x, 4, hop_length=2, window=torch.hann_window(4, dtype=x.dtype), return_complex=True)", "torch.stft(x, 4, center=False, return_complex=True)", "torch.stft(x, 6, hop_length=3, win_length=4, normalized=True, onesided=True, return_complex=True)", "torch.stft(x, 4, onesided=False, return_complex=True)", "torch.view_as_real(torch.stft(x, 4, pad_mode='constant', return_complex=True))", "w = torch.hann_window(4, dtype=x.dtype)\ntorch.istft(torch.stft(x, 4, hop_length=1, window=w, return_complex=True), 4, hop_length=1, window=w)", "w = torch.hann_window(4, dtype=x.dtype)\ntorch.istft(torch.stft(x, 4, hop_length=2, window=w, return_complex=True), 4, hop_length=2, window=w, length=10)"], x=[f(12), f(2, 12)])
fails("", ["torch.stft(x, 4)", "torch.stft(x, 40, return_complex=True)", "torch.stft(x, 4, window=torch.ones(7), return_complex=True)", "torch.stft(x[0], 4, return_complex=True)"], x=f(12))
WINDOWS = {"hann_window": "", "hamming_window": "", "blackman_window": "", "bartlett_window": "", "kaiser_window": ""}
case("", [f"torch.{name}(n)" for name in WINDOWS] + [f"torch.{name}(n, periodic=False, dtype=torch.float64)" for name in WINDOWS] + ["torch.hamming_window(n, True, 0.4, 0.6)", "torch.kaiser_window(n, True, 3.0)"], n=[0, 1, 5, 8])
case("", [f"torch.signal.windows.{name}(n, sym={sym})" for name in ("hann", "hamming", "blackman", "bartlett", "cosine", "exponential", "gaussian", "kaiser", "nuttall") for sym in (True, False)] + ["torch.signal.windows.general_cosine(n, a=[0.5, 0.3, 0.2])", "torch.signal.windows.general_hamming(n, alpha=0.6)", "torch.signal.windows.gaussian(n, std=2.0, dtype=torch.float64)"], n=[1, 6, 7])

# special functions, each where it is defined
UNARY = {
    "bessel_j0": (-3, 3), "bessel_j1": (-3, 3), "bessel_y0": (0.5, 3), "bessel_y1": (0.5, 3), "digamma": (0.5, 3), "entr": (0.1, 2), "erf": (-2, 2), "erfc": (-2, 2), "erfcx": (-1, 2), "erfinv": (-0.8, 0.8), "exp2": (-2, 2), "expit": (-3, 3), "expm1": (-2, 2), "gammaln": (0.5, 3), "i0": (-2, 2), "i0e": (-2, 2), "i1": (-2, 2), "i1e": (-2, 2), "log1p": (-0.5, 2), "log_ndtr": (-2, 2), "logit": (0.1, 0.9),
    "modified_bessel_i0": (-2, 2), "modified_bessel_i1": (-2, 2), "modified_bessel_k0": (0.5, 2), "modified_bessel_k1": (0.5, 2), "ndtr": (-2, 2), "ndtri": (0.1, 0.9), "psi": (0.5, 3), "round": (-3, 3), "scaled_modified_bessel_k0": (0.5, 2), "scaled_modified_bessel_k1": (0.5, 2), "sinc": (-2, 2), "spherical_bessel_j0": (0.1, 2),
}
UNDIFFERENTIATED = ("bessel", "spherical")
for name, (low, high) in UNARY.items():
    case("", f"torch.special.{name}(x)", x=[f(2, 3, low=low, high=high), f(4, low=low, high=high, dtype="float32")], grad=not any(word in name for word in UNDIFFERENTIATED))
case("", [f"torch.special.{name}(x)" for name in ("erf", "expit", "digamma", "gammaln", "i0", "exp2", "sinc", "ndtr", "entr", "log1p")], x=i(4, low=1, high=5), grad=False)
case("", ["torch.special.xlogy(x, y)", "torch.special.xlog1py(x, y)", "torch.special.zeta(x + 1.5, y)", "torch.special.gammainc(x, y)", "torch.special.gammaincc(x, y)", "torch.special.xlogy(x, 2.0)", "torch.special.xlog1py(0.0, y)"], x=f(2, 3, low=0.5, high=2), y=f(3, low=0.5, high=2), grad=False)
case("", ["torch.special.xlogy(x, y)", "torch.special.xlog1py(x, y)", "torch.special.polygamma(1, x)", "torch.special.polygamma(2, x)", "torch.special.multigammaln(x + 2, 2)", "torch.special.logsumexp(x, 0)", "torch.special.softmax(x, 1)", "torch.special.log_softmax(x, 0)", "torch.special.logit(x / 3, eps=0.1)"], x=f(2, 3, low=0.5, high=2), y=f(3, low=0.5, high=2))
fails("", ["torch.special.erf('a')", "torch.special.polygamma(-1, x)", "torch.special.xlogy(x, y)"], x=f(2, 3), y=f(2))
