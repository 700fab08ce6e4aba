
/* No header is included: what is compiled must not depend on the C library beside the compiler. */
typedef unsigned long size;
long write(int file, const void *bytes, size count);
_Noreturn void abort(void);

#define HIDDEN __attribute__((visibility("hidden")))

/* Ends the process with a line on stderr. It is one write, so that the lines of two threads do not mix; what does not
 * fit is cut. */
static _Noreturn void end(const char *const *parts) {
    char line[2048];
    size length = 0;
    for (; *parts; parts++)
        for (const char *part = *parts; *part && length < sizeof line - 1; part++) line[length++] = *part;
    line[length++] = '\n';
    if (write(2, line, length) < 0) abort();
    abort();
}

/* Whatever the arguments are, the caller owns them; an integer result is in the same register for every width. */
#define ANSWER(number, name, value) \
    long torchfl_shim_answer_##number(void) __asm__(name); \
    long torchfl_shim_answer_##number(void) { return value; }
ANSWERED(ANSWER)
