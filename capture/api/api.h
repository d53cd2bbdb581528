/*
 * capture/api/api.h - helpers that the sources behind meridian.h share. Internal.
 */
#ifndef MRD_CAPTURE_API_API_H
#define MRD_CAPTURE_API_API_H

#include "capture/api/record.h"
#include "capture/api/stats.h"
#include "capture/api/thread.h"
#include "capture/meridian.h"

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

/* Returns the id of a text. If there are too many names, returns the id of a name that says so. */
uint32_t mrd_api_name(const char *text);
/* Does the same and keeps the id in *keep, unless a later call may find a better one. A signal
 * handler that interrupts the library cannot add a name. */
uint32_t mrd_api_name_once(const char *text, uint32_t *keep);
/* Adds a finished span to the statistics if they are enabled, and writes the periodic dump if it is
 * due. */
void mrd_api_finished(const mrd_rec_what *what, uint64_t ticks);

#endif
