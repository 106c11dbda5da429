/* Libraries built on a new glibc must load on 2.31: functions that moved into libc with 2.34 are bound to
 * their old versions. The libraries name libdl and libpthread as needed, where a glibc before 2.34 has them.
 */
#ifndef SOFTGPU_FLOOR_H
#define SOFTGPU_FLOOR_H

#define FLOOR(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
FLOOR(dlopen);
FLOOR(dlsym);
FLOOR(pthread_key_create);
FLOOR(pthread_key_delete);
FLOOR(pthread_once);
FLOOR(pthread_setspecific);

#endif
