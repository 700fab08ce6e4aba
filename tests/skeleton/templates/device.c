/* A device library. -DKEY is its dispatch key; HOOKS marks the one that registers the device and the kernels;
 * ADD is the mangled name of its at::KEY::add, as torchgen calls the kernels; FORK, that it needs what only the fork's core exports;
 * GAP, likewise where a shim is to stand in for that. */
#include "skeleton.h"

#ifdef FORK
int at_fork_autocast(void);
int JOIN(NAME, _autocast)(void) { return at_fork_autocast(); }
#endif

#ifdef GAP
int JOIN(NAME, _gap)(void) {
  at_set_fork_enabled(1);
  return at_is_fork_enabled();
}
#endif

#ifdef HOOKS
void kernel_add(void) __asm__(ADD);
void kernel_add(void) {}

__attribute__((constructor)) static void register_device(void) {
  c10_register_kernel("aten::add", KEY);
  c10_register_kernel("aten::mm", KEY);
  c10_register_hooks(KEY);
}
#endif
