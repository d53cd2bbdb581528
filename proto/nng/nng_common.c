#include "proto/nng/nng_common.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/obj.h"

uint64_t
mrd_link_raise_files(void)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0)
        return 1024;
    lim.rlim_cur = lim.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &lim) != 0)
        getrlimit(RLIMIT_NOFILE, &lim);
    return lim.rlim_cur;
}

mrd_err
mrd_nng_why(mrd_why *why, int rv, const char *what, const char *url)
{
    static const struct {
        int nng;
        mrd_err err;
    } map[] = { { NNG_ENOMEM, MRD_NOMEM },        { NNG_EADDRINVAL, MRD_INVALID },
                { NNG_EINVAL, MRD_INVALID },      { NNG_EADDRINUSE, MRD_BUSY },
                { NNG_ENOTSUP, MRD_UNSUPPORTED }, { NNG_ECRYPTO, MRD_AUTH },
                { NNG_ECLOSED, MRD_CLOSED },      { NNG_ETIMEDOUT, MRD_TIMEOUT } };
    mrd_err err = MRD_NET;

    for (size_t i = 0; i < MRD_COUNT(map); i++) {
        if (map[i].nng == rv)
            err = map[i].err;
    }
    /* NNG 1.10 has another interface for TLS engines, and some builds of NNG have none. */
    if (rv == NNG_ENOTSUP && mrd_nng_wants_tls(url))
        return mrd_why_set(
            why, err, 0,
            "cannot %s %s: the NNG library of this system (%s) does not accept "
            "Meridian's TLS: install NNG 1.5.2 to 1.9 (libnng1 of Debian 12), or use "
            "tcp:// in a network without other users",
            what, url, nng_version());
    return mrd_why_set(why, err, 0, "cannot %s %s: %s", what, url, nng_strerror(rv));
}

bool
mrd_nng_wants_tls(const char *url)
{
    return url != NULL && strncmp(url, "tls+", 4) == 0;
}

mrd_err
mrd_nng_tls_for(const char *data_url, const char *control_url, const mrd_link_tls *files,
                bool server, mrd_tls **ret_tls, mrd_why *why)
{
    const char *url = mrd_nng_wants_tls(data_url) ? data_url : control_url;
    mrd_err err;

    if (!mrd_nng_wants_tls(url))
        return MRD_OK;
    if ((err = mrd_tls_open(files, server, ret_tls, why)) != MRD_OK)
        mrd_why_prefix(why, err, "%s", url);
    return err;
}

nng_msg *
mrd_nng_msg(mrd_bytes frame)
{
    nng_msg *msg;

    if (nng_msg_alloc(&msg, frame.len) != 0)
        return NULL;
    if (frame.len > 0)
        memcpy(nng_msg_body(msg), frame.p, frame.len);
    return msg;
}

bool
mrd_nng_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int timeout_ms,
             const struct timespec *end)
{
    if (timeout_ms == 0)
        return false;
    if (timeout_ms < 0)
        return pthread_cond_wait(cond, lock) == 0;
    return pthread_cond_timedwait(cond, lock, end) == 0;
}
