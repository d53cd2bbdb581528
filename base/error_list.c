#include "base/error_list.h"

void
mrd_error_list_init(mrd_error_list *t)
{
    memset(t, 0, sizeof(*t));
    pthread_mutex_init(&t->lock, NULL);
}

void
mrd_error_list_fini(mrd_error_list *t)
{
    pthread_mutex_destroy(&t->lock);
}

void
mrd_error_list_add(mrd_error_list *t, mrd_err err, const char *message)
{
    const mrd_why *last;

    pthread_mutex_lock(&t->lock);
    t->total++;
    last = t->n == 0 ? NULL : &t->waiting[(t->first + t->n - 1) % MRD_ERROR_LIST_MAX];
    if (t->n < MRD_ERROR_LIST_MAX && (last == NULL || strcmp(last->text, message) != 0))
        mrd_why_set(&t->waiting[(t->first + t->n++) % MRD_ERROR_LIST_MAX], err, 0, "%s", message);
    pthread_mutex_unlock(&t->lock);
}

bool
mrd_error_list_take(mrd_error_list *t, mrd_why *ret_why)
{
    bool some;

    pthread_mutex_lock(&t->lock);
    if ((some = t->n > 0)) {
        *ret_why = t->waiting[t->first];
        t->first = (t->first + 1) % MRD_ERROR_LIST_MAX;
        t->n--;
    }
    pthread_mutex_unlock(&t->lock);
    return some;
}

uint64_t
mrd_error_list_total(mrd_error_list *t)
{
    uint64_t n;

    pthread_mutex_lock(&t->lock);
    n = t->total;
    pthread_mutex_unlock(&t->lock);
    return n;
}
