/* Why something is refused. */
#ifndef CT_WHY_H
#define CT_WHY_H

#include <stdarg.h>
#include <stdio.h>

typedef struct {
    char text[320];
} ct_why_t;

/* Note the reason; always 1. */
__attribute__((format(printf, 2, 3))) static inline int ct_refuse(ct_why_t *why, const char *format,
                                                                  ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    return 1;
}

#endif
