#include "base/error_list.h"

void
mrd_error_list_init(mrd_error_list *list)
{
    memset(list, 0, sizeof(*list));
    pthread_mutex_init(&list->lock, NULL);
}

void
mrd_error_list_fini(mrd_error_list *list)
{
    pthread_mutex_destroy(&list->lock);
}

void
mrd_error_list_add(mrd_error_list *list, mrd_err err, const char *message)
{
    const mrd_why *last;

    pthread_mutex_lock(&list->lock);
    list->total++;
    last = list->n == 0 ? NULL : &list->waiting[(list->first + list->n - 1) % MRD_ERROR_LIST_MAX];
    if (list->n < MRD_ERROR_LIST_MAX && (last == NULL || strcmp(last->text, message) != 0))
        mrd_why_set(&list->waiting[(list->first + list->n++) % MRD_ERROR_LIST_MAX], err, 0, "%s",
                    message);
    pthread_mutex_unlock(&list->lock);
}

bool
mrd_error_list_take(mrd_error_list *list, mrd_why *ret_why)
{
    bool some;

    pthread_mutex_lock(&list->lock);
    if ((some = list->n > 0)) {
        *ret_why = list->waiting[list->first];
        list->first = (list->first + 1) % MRD_ERROR_LIST_MAX;
        list->n--;
    }
    pthread_mutex_unlock(&list->lock);
    return some;
}

uint64_t
mrd_error_list_total(mrd_error_list *list)
{
    uint64_t n;

    pthread_mutex_lock(&list->lock);
    n = list->total;
    pthread_mutex_unlock(&list->lock);
    return n;
}
