
void *dlopen(const char *file, int mode);
void *dlsym(void *library, const char *name);
char *dlerror(void);

enum { LAZY = 1 }; /* RTLD_LAZY, in the caller's own scope */

/* Where each function goes. Until find_all() has been there, and for good where TARGET has none, that is its own
 * second half below, which asks torchfl_shim_find(). */
#define LOOK(place, name) extern char torchfl_shim_look_##place[] HIDDEN;
FORWARDED(LOOK)
#define ENTRY(place, name) torchfl_shim_look_##place,
HIDDEN char *torchfl_shim_table[] = {FORWARDED(ENTRY) 0};

/* All of this library's forwarding code, as the linker names the ends of a section. */
extern char __start_torchfl_shim[] HIDDEN, __stop_torchfl_shim[] HIDDEN;

#define NAME(place, name) name,
static const char *const names[] = {FORWARDED(NAME) 0};

/* TARGET may need this very library, and then finds our functions for those that it lacks. */
static int own(const char *function) { return function >= __start_torchfl_shim && function < __stop_torchfl_shim; }

/* Fills the table, or says why TARGET cannot be opened. To do it twice, or in two threads, changes nothing. */
static const char *find_all(void) {
    void *target = dlopen(TARGET, LAZY);
    if (!target) return dlerror();
    for (size place = 0; names[place]; place++) {
        char *function = dlsym(target, names[place]);
        if (function && !own(function)) __atomic_store_n(&torchfl_shim_table[place], function, __ATOMIC_RELEASE);
    }
    return 0;
}

/* The loader runs this before the code of whoever needs this library, in the thread that loads it: later calls take
 * no lock. A TARGET that cannot be opened is no reason not to load. */
__attribute__((constructor)) static void start(void) { find_all(); }

/* For a call that found no way in the table: it came before start(), from what TARGET does when it is opened, or there
 * is none. */
HIDDEN char *torchfl_shim_find(size place) {
    const char *trouble = find_all();
    char *function = __atomic_load_n(&torchfl_shim_table[place], __ATOMIC_ACQUIRE);
    if (!own(function)) return function;
    const char *what = trouble ? " of " SONAME " is in " TARGET ", which cannot be opened: "
                               : " of " SONAME " was called, and " TARGET " has no such function";
    end((const char *const[]){"torch_fl: ", names[place], what, trouble ? trouble : "", 0});
}
