/* The kernel's kfd_ioctl.h includes <drm/drm.h>, which Debian ships in libdrm-dev under another folder. */
#include <libdrm/drm.h>
