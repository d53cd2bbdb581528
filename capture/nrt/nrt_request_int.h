/*
 * capture/nrt/nrt_request_int.h - the inside of nrt_request.c (the control file, continuous profiles),
 * for the kinds of requests and for nrt_request_answer.c below them. Internal. The caller holds the
 * lock, unless a comment says otherwise.
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
/* The top directory of all files of this user, MRD_REQUEST_DIR bytes. */
char *mrd_request_top(void);
/* Called in a child of fork: the lock is free, and there is no request. */
void mrd_request_forked(void);
bool mrd_request_wants(const mrd_control *control, int32_t core);
/* Creates the directory if it is missing. Returns false if other users have access to it. */
bool mrd_request_own_folder(const char *dir);

/* ---- Answers are notices; no lock needed. core -1 means the request as a whole ---- */

void mrd_request_say(const char *message, uint64_t id, int32_t core, const char *why,
                     const char *dir);
void mrd_request_refuse(uint64_t id, int32_t core, const char *why);
void mrd_request_refuse_status(uint64_t id, int32_t core, const char *call, NRT_STATUS status);

/* ---- Kinds (nrt_request_model.c, nrt_request_inspect.c). arm returns false if it was refused ---- */

bool mrd_request_model_arm(const mrd_control *control);
void mrd_request_model_chosen(void); /* its list of models changed */
void mrd_request_model_end(const mrd_control *control);
bool mrd_request_inspect_arm(const mrd_control *control);
void mrd_request_inspect_end(const mrd_control *control);

#endif
