/* Where the calls go: the same names, under no version. -DCYCLE: it calls the shim when it is opened. */
#include "acme.h"

long acme_ints(int a, long b, short c, unsigned char d, int *pointer) {
    *pointer += a;
    return a + 10 * b + 100 * c + 1000 * d;
}

double acme_reals(double a, float b, double c, double d, float e, double f, double g, double h) {
    return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f + 1000000 * g + 10000000 * h;
}

long acme_ten(long a, double b, int c, float d, long e, long f, int g, long h, short i, double j, long k, long l) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l;
}

struct large acme_large(long seed, struct large other) {
    for (int i = 0; i < 6; i++) other.numbers[i] += seed + i;
    other.real *= 2;
    return other;
}

struct pair acme_pair(struct pair other, double more) { return (struct pair){other.real + more, other.whole + 1}; }
four acme_vector(four a, four b) { return a * 10 + b; }

double acme_sum(int count, ...) {
    va_list list;
    double sum = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++) sum += i % 2 ? va_arg(list, double) : va_arg(list, int);
    va_end(list);
    return sum;
}

long acme_list(const char *kinds, va_list list) {
    long sum = 0;
    for (; *kinds; kinds++) sum = 10 * sum + (*kinds == 'i' ? va_arg(list, int) : (long)va_arg(list, double));
    return sum;
}

long acme_call_back(long (*function)(long), long argument) { return function(argument) + 1; }
long acme_answered(long a, double b) { return 1; }

#ifdef CYCLE
static long met;
__attribute__((constructor)) static void start(void) { met = acme_ten(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12); }
long acme_self(void) { return met; }
#endif
