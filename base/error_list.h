/*
 * base/error_list.h - a list of error messages from code that must not write to the log itself.
 * Another thread takes the messages and logs them. The list holds MRD_ERROR_LIST_MAX messages.
 * Further messages and repeated messages are only counted.
 *
 * Threads: any.
 */
#ifndef MRD_BASE_ERROR_LIST_H
#define MRD_BASE_ERROR_LIST_H

#include <pthread.h>

#include "base/buf.h"

#define MRD_ERROR_LIST_MAX 8

typedef struct {
    pthread_mutex_t lock; /* guards the list; no other lock is taken while a thread has this lock */
    mrd_why waiting[MRD_ERROR_LIST_MAX];
    unsigned first, n;
    uint64_t total;
} mrd_error_list;

void mrd_error_list_init(mrd_error_list *list);
void mrd_error_list_fini(mrd_error_list *list);
void mrd_error_list_add(mrd_error_list *list, mrd_err err, const char *message);
/* Removes the oldest message and stores it in *ret_why. Returns false if there is none. */
bool mrd_error_list_take(mrd_error_list *list, mrd_why *ret_why);
/* Returns how many messages were ever added. */
uint64_t mrd_error_list_total(mrd_error_list *list);

#endif
