/* Opens libraries as its arguments say, and tells on stderr, among what LD_DEBUG prints, what became of it.
   A step is FLAGS:CALLER:NAME. FLAGS: n RTLD_NOW (else lazy), g RTLD_GLOBAL, d RTLD_DEEPBIND. CALLER: the file name of
   the library that calls dlopen, or nothing for the program. Each has a function `via` that does it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef void *open_t(const char *, int);
typedef void *via_t(open_t *, const char *, int);

static void say(const char *format, ...) {
    char text[8192];
    va_list list;
    va_start(list, format);
    int len = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (write(2, text, len < (int)sizeof text ? len : (int)sizeof text - 1) < 0)
        _exit(9);
}

static void maps(void) {
    for (struct link_map *map = _r_debug.r_map; map; map = map->l_next)
        say("@map %s\n", map->l_name);
    say("@end\n");
}

static via_t *via_of(struct link_map *map) {
    const Elf64_Sym *symbols = 0;
    const char *strings = 0;
    size_t size = 0;
    for (const Elf64_Dyn *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) symbols = (const Elf64_Sym *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB) strings = (const char *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRSZ) size = entry->d_un.d_val;
    }
    for (; (const char *)symbols < strings; symbols++)
        if (symbols->st_name < size && symbols->st_shndx != SHN_UNDEF && !strcmp(strings + symbols->st_name, "via"))
            return (via_t *)(map->l_addr + symbols->st_value);
    return 0;
}

static via_t *caller(const char *name) {
    for (struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
        const char *slash = strrchr(map->l_name, '/');
        if (!strcmp(slash ? slash + 1 : map->l_name, name))
            return via_of(map);
    }
    return 0;
}

void driver_main(int argc, char **argv, via_t *via) {
    say("@start\n");
    maps();
    for (int i = 1; i < argc; i++) {
        char *flags = argv[i], *by = strchr(flags, ':') + 1, *name = strchr(by, ':') + 1;
        name[-1] = 0;
        int mode = RTLD_LAZY;
        for (; *flags != ':'; flags++)
            mode = *flags == 'n' ? (mode & ~RTLD_LAZY) | RTLD_NOW : mode | (*flags == 'g' ? RTLD_GLOBAL : RTLD_DEEPBIND);
        via_t *from = *by ? caller(by) : via;
        say("@step\n");
        if (!from)
            say("@nobody\n");
        else if (from(dlopen, name, mode))
            say("@ok\n");
        else
            say("@fail %s\n", dlerror());
        maps();
    }
    _exit(0);
}
