/* Calls one case, by its name, and says `right` or what it got. -l PATH: that library is opened first. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "acme.h"

#define EXPECT(got, wanted) \
    do { \
        if ((got) != (wanted)) return printf("line %d: %.17g, not %.17g\n", __LINE__, (double)(got), (double)(wanted)), 1; \
    } while (0)

static long twice(long a) { return 2 * a; }

static long listed(const char *kinds, ...) {
    va_list list;
    va_start(list, kinds);
    long sum = acme_list(kinds, list);
    va_end(list);
    return sum;
}

static int ints(void) {
    int counted = 5;
    EXPECT(acme_ints(-1, 2, -3, 4, &counted), -1 + 20 - 300 + 4000);
    EXPECT(counted, 4);
    return 0;
}

static int reals(void) {
    EXPECT(acme_reals(1.5, 2.5f, 3, 4, 5, 6, 7, 8), 87654326.5);
    return 0;
}

static int ten(void) {
    EXPECT(acme_ten(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), 650);
    return 0;
}

static int large(void) {
    struct large a = {{1, 2, 3, 4, 5, 6}, 1.25}, b = acme_large(100, a);
    for (int i = 0; i < 6; i++) EXPECT(b.numbers[i], 101 + 2 * i);
    EXPECT(b.real, 2.5);
    return 0;
}

static int pair(void) {
    struct pair a = acme_pair((struct pair){1.5, 41}, 2);
    EXPECT(a.real, 3.5);
    EXPECT(a.whole, 42);
    return 0;
}

static int vector(void) {
    four a = acme_vector((four){1, 2, 3, 4}, (four){5, 6, 7, 8});
    for (int i = 0; i < 4; i++) EXPECT(a[i], (i + 1) * 10 + i + 5);
    return 0;
}

static int varargs(void) {
    EXPECT(acme_sum(10, 1, 2.5, 3, 4.5, 5, 6.5, 7, 8.5, 9, 10.5), 57.5);
    EXPECT(acme_sum(0), 0);
    EXPECT(listed("idid", 1, 2.0, 3, 4.0), 1234);
    return 0;
}

static int call_back(void) {
    EXPECT(acme_call_back(twice, 20), 41);
    return 0;
}

static int answered(void) {
    EXPECT(acme_answered(3, 4), 801);
    return 0;
}

static int absent(void) { return printf("came back with %ld\n", acme_absent(7)), 1; }
static int self(void) { return printf("%ld\n", acme_self()), 0; }

enum { THREADS = 32 };
static pthread_barrier_t barrier;

static void *at_once(void *wrong) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 1000; i++)
        if (ten() || large() || reals()) *(int *)wrong = 1;
    return 0;
}

static int threads(void) {
    pthread_t all[THREADS];
    int wrong[THREADS] = {0};
    pthread_barrier_init(&barrier, 0, THREADS);
    for (int i = 0; i < THREADS; i++) pthread_create(&all[i], 0, at_once, &wrong[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], 0);
    for (int i = 0; i < THREADS; i++) EXPECT(wrong[i], 0);
    return 0;
}

static int forked(void) {
    int status = 1;
    if (!fork()) _exit(ten() || ints());
    wait(&status);
    EXPECT(status, 0);
    return ten();
}

static const struct { const char *name; int (*run)(void); } cases[] = {
    {"ints", ints}, {"reals", reals}, {"ten", ten}, {"large", large}, {"pair", pair}, {"vector", vector},
    {"varargs", varargs}, {"call-back", call_back}, {"answered", answered}, {"absent", absent}, {"self", self},
    {"threads", threads}, {"forked", forked}};

int main(int argc, char **argv) {
    if (argc > 3 && !strcmp(argv[2], "-l") && !dlopen(argv[3], RTLD_NOW)) return puts(dlerror()), 2;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
            int wrong = cases[i].run();
            return puts(wrong ? "wrong" : "right"), wrong;
        }
    return puts("no such case"), 3;
}
