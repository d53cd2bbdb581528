#include "base/troubles.h"

void
mrd_troubles_init(mrd_troubles *t)
{
    memset(t, 0, sizeof(*t));
    pthread_mutex_init(&t->lock, NULL);
}

void
mrd_troubles_fini(mrd_troubles *t)
{
    pthread_mutex_destroy(&t->lock);
}

void
mrd_troubles_add(mrd_troubles *t, mrd_err err, const char *sentence)
{
    const mrd_why *last;

    pthread_mutex_lock(&t->lock);
    t->total++;
    last = t->n == 0 ? NULL : &t->waiting[(t->first + t->n - 1) % MRD_TROUBLES];
    if (t->n < MRD_TROUBLES && (last == NULL || strcmp(last->text, sentence) != 0))
        mrd_why_set(&t->waiting[(t->first + t->n++) % MRD_TROUBLES], err, 0, "%s", sentence);
    pthread_mutex_unlock(&t->lock);
}

bool
mrd_troubles_take(mrd_troubles *t, mrd_why *ret_why)
{
    bool some;

    pthread_mutex_lock(&t->lock);
    if ((some = t->n > 0)) {
        *ret_why = t->waiting[t->first];
        t->first = (t->first + 1) % MRD_TROUBLES;
        t->n--;
    }
    pthread_mutex_unlock(&t->lock);
    return some;
}

uint64_t
mrd_troubles_total(mrd_troubles *t)
{
    uint64_t n;

    pthread_mutex_lock(&t->lock);
    n = t->total;
    pthread_mutex_unlock(&t->lock);
    return n;
}
