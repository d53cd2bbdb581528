/*
 * capture/nrt/nrt_request_int.h - internals of nrt_request.c (the control file, continuous
 * profiles), shared with the other nrt_request_*.c files. Internal. The caller holds the lock,
 * unless a comment says otherwise.
 */
#ifndef MRD_CAPTURE_NRT_NRT_REQUEST_INT_H
#define MRD_CAPTURE_NRT_NRT_REQUEST_INT_H

#include "capture/nrt/nrt_control.h"
#include "capture/nrt/nrt_request.h"

#define MRD_REQUEST_DIR  400
#define MRD_REQUEST_FILE (MRD_REQUEST_DIR + 112)

void mrd_request_lock(void);
void mrd_request_unlock(void);
extern mrd_control mrd_request_on; /* the current request; id 0 means none */
/* Returns the top directory of all captures of this user, in a buffer of MRD_REQUEST_DIR bytes. */
char *mrd_request_top(void);
/* Called in a child of fork. Releases the lock, which the parent may have held, and drops the
 * request. */
void mrd_request_forked(void);
bool mrd_request_wants(const mrd_control *control, int32_t core);
/* Creates the directory if it is missing. Returns false if other users have access to it. */
bool mrd_request_own_folder(const char *dir);

/* ---- Answers (notices). No lock is needed. A core of -1 means the whole request ---- */

void mrd_request_say(const char *message, uint64_t id, int32_t core, const char *why,
                     const char *dir);
void mrd_request_refuse(uint64_t id, int32_t core, const char *why);
void mrd_request_refuse_status(uint64_t id, int32_t core, const char *call, NRT_STATUS status);

/* ---- Kinds of requests. The _arm functions begin a request. They return false if the runtime
 * refused. ---- */

bool mrd_request_model_arm(const mrd_control *control);
void mrd_request_model_chosen(void); /* called when the request's list of models has changed */
void mrd_request_model_end(const mrd_control *control);
bool mrd_request_inspect_arm(const mrd_control *control);
void mrd_request_inspect_end(const mrd_control *control);

#endif
