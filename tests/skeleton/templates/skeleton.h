/* Shared by every library of a skeleton. The compiler is told, by -D:
 *   BUILD   which build this library belongs to: "stock", or the vendor's name
 *   NAME    its own name as an identifier: c10, torch_cpu, ...
 *   USES    USE(a_build) USE(b_build) ...: one function of each library that it is linked against, so that
 *           every DT_NEEDED entry stands for a symbol (and a symbol version) that is really bound
 */
#ifndef SKELETON_H
#define SKELETON_H

#ifndef USES
#define USES
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#define USE(function) extern const char *function(void);
USES
#undef USE

/* The one name that every library exports: meant for a handle (`ctypes.CDLL(path).torch_build()`), never linked. */
const char *torch_build(void) { return BUILD; }
/* The name that others link against: tells which copy of this library they are bound to. */
const char *JOIN(NAME, _build)(void) { return BUILD; }

#define USE(function) function,
static const char *(*const uses[])(void) = {USES 0};
#undef USE

/* How many linked libraries answer. */
int JOIN(NAME, _uses)(void) {
  int answered = 0;
  for (int i = 0; uses[i]; i++) answered += uses[i]() != 0;
  return answered;
}

/* What a fork's core has that its device library needs and the stock core lacks, where a shim fills that gap:
 * at::autocast::is_fork_enabled() and at::autocast::set_fork_enabled(bool). */
int at_is_fork_enabled(void) __asm__("_ZN2at8autocast15is_fork_enabledEv");
void at_set_fork_enabled(int enabled) __asm__("_ZN2at8autocast16set_fork_enabledEb");

/* Kernels by operator and dispatch key, and the device hooks; libc10 keeps both. */
void c10_register_kernel(const char *op, const char *key);
int c10_has_kernel(const char *op, const char *key);
void c10_register_hooks(const char *device);
const char *c10_registered_hooks(void);

#endif
