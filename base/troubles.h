/*
 * base/troubles.h - sentences about things that went wrong in places that must not log: kept until
 * somebody who may takes them. At most MRD_TROUBLES wait; more, and the same again, are counted.
 *
 * Threads: any.
 */
#ifndef MRD_BASE_TROUBLES_H
#define MRD_BASE_TROUBLES_H

#include <pthread.h>

#include "base/buf.h"

#define MRD_TROUBLES 8

typedef struct {
    pthread_mutex_t lock; /* innermost */
    mrd_why waiting[MRD_TROUBLES];
    unsigned first, n;
    uint64_t total;
} mrd_troubles;

void mrd_troubles_init(mrd_troubles *t);
void mrd_troubles_fini(mrd_troubles *t);
void mrd_troubles_add(mrd_troubles *t, mrd_err err, const char *sentence);
/* The oldest that waits; false when none does. */
bool mrd_troubles_take(mrd_troubles *t, mrd_why *ret_why);
uint64_t mrd_troubles_total(mrd_troubles *t); /* ever added */

#endif
