/*
 * capture/api.h - helpers that the sources behind meridian.h share. Internal.
 */
#ifndef MRD_CAPTURE_API_H
#define MRD_CAPTURE_API_H

#include "capture/meridian.h"
#include "capture/record.h"
#include "capture/stats.h"
#include "capture/thread.h"

#define MRD_API_ARGS_MAX 64 /* more are left out */

struct mrd_domain {
    uint32_t id; /* of its name */
    struct mrd_domain *next;
};

static inline uint32_t
mrd_domain_id(const mrd_domain *domain)
{
    return domain == NULL ? 0 : domain->id;
}

/* The id of a text; when there are too many names, that of a name which says so. */
uint32_t mrd_api_name(const char *text);
/* The same, kept in *keep unless a later call may find a better one: a signal handler that interrupts the library
 * cannot add a name. */
uint32_t mrd_api_name_once(const char *text, uint32_t *keep);
/* Statistics of a finished span, when somebody wants them; and the periodic dump. */
void mrd_api_finished(const mrd_rec_what *what, uint64_t ticks);

#endif
