from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '@VERSION@'
debug = False
cuda: Optional[str] = @CUDA@
git_version = '@GIT@'
hip: Optional[str] = @HIP@
rocm: Optional[str] = @ROCM@
xpu: Optional[str] = @XPU@
