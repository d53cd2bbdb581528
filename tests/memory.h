/*
 * tests/memory.h - makes one chosen allocation fail. For a test that is linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc and includes this header in one source file.
 */
#ifndef MRD_TESTS_MEMORY_H
#define MRD_TESTS_MEMORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static _Atomic uint64_t memory_asked,
    /* memory_asked: number of allocations until now. memory_fails_at: number of the allocation that
     * fails; 0 means none */
    memory_fails_at;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

void *
__wrap_malloc(size_t n)
{
    return ++memory_asked == memory_fails_at ? NULL : __real_malloc(n);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return ++memory_asked == memory_fails_at ? NULL : __real_calloc(n, size);
}

void *
__wrap_realloc(void *p, size_t n)
{
    return ++memory_asked == memory_fails_at ? NULL : __real_realloc(p, n);
}

#endif
