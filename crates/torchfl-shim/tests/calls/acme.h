/* What a program, a fork, calls: functions of every way in which arguments and results travel. */
#include <stdarg.h>

struct large { long numbers[6]; double real; };
struct pair { double real; long whole; };
typedef float four __attribute__((vector_size(16)));

long acme_ints(int a, long b, short c, unsigned char d, int *pointer);
double acme_reals(double a, float b, double c, double d, float e, double f, double g, double h);
long acme_ten(long a, double b, int c, float d, long e, long f, int g, long h, short i, double j, long k, long l);
struct large acme_large(long seed, struct large other);
struct pair acme_pair(struct pair other, double more);
four acme_vector(four a, four b);
double acme_sum(int count, ...);
long acme_list(const char *kinds, va_list list);
long acme_call_back(long (*function)(long), long argument);
long acme_answered(long a, double b);
long acme_absent(long a);
long acme_self(void);
