"""Special functions and activations under their names in scipy.special and jax.nn.

Takes arrays or numbers. Inside a fused function they become part of its kernels; on plain arrays
they are fused functions themselves, compiled once per dtype, with `explain`, `lower` and the rest.

    fjit.special.logsumexp(x, axis=1)      in a fused function: part of the kernel around it
"""

from fjit.api import fuse
from fjit.frontend import activations as _activations
from fjit.frontend import special as _traced

erf = fuse(_traced.erf)
erfc = fuse(_traced.erfc)
gammaln = fuse(_traced.gammaln)
digamma = psi = fuse(_traced.digamma)
expit = sigmoid = fuse(_traced.expit)
log_expit = log_sigmoid = fuse(_traced.log_expit)
logit = fuse(_traced.logit)
ndtr = fuse(_traced.ndtr)
log_ndtr = fuse(_traced.log_ndtr)
xlogy = fuse(_traced.xlogy)
entr = fuse(_traced.entr)
softmax = fuse(static_argnames="axis")(_traced.softmax)
log_softmax = fuse(static_argnames="axis")(_traced.log_softmax)
logsumexp = fuse(static_argnames=("axis", "keepdims", "return_sign"))(_traced.logsumexp)
relu = fuse(_activations.relu)
gelu = fuse(static_argnames="approximate")(_activations.gelu)
silu = swish = fuse(_activations.silu)
softplus = fuse(_activations.softplus)

__all__ = [
    "digamma", "entr", "erf", "erfc", "expit", "gammaln", "gelu", "log_expit", "log_ndtr",
    "log_sigmoid", "log_softmax", "logit", "logsumexp", "ndtr", "psi", "relu", "sigmoid", "silu",
    "softmax", "softplus", "swish", "xlogy",
]  # fmt: skip
