/* The ledger's protocol as a Spin model. Every load, store and read-modify-write of shared memory is its own step; a
 * process may be killed or stopped for ever between any two. Checked: the limit is never exceeded (assert live<=LIMIT);
 * nobody is refused what fits (assert just[p]); somebody always gets on (no non-progress cycle).
 *
 * Steps of the model are testpoints of the code (src/multiprocess/testpoint.def):
 *	claim: high raised .. ident set		claim_raised, claim_identified
 *	reserve: asked+ .. upper .. asked-	reserve_announced, reserve_counted, reserve_withdrawn
 *	commit: decided .. granted+ or asked-	reserve_granted, settle_raised, withdraw_lowered
 *	queue: qlock .. asked+ .. look		reserve_queued, reserve_queued_announced
 *	share: unproven .. upper .. proven		share_written
 *	revoke: each share cleared .. upper		shares_revoked
 *	reap: klock .. gone .. granted .. ident		reap_gone_raised, reap_row_raised, reap_space_cleared
 *
 * Not in it: weak memory (the code is sequentially consistent), how death is told (`dead` is what the kernel knows),
 * several devices, limits written anew. In the code a claim reaps before it takes a slot and usually holds the lock;
 * here it takes a slot without the lock and reaps only when none is free, which allows more. Each book has a queue: one is here.
 *
 * N runners, S slots, K requests each, BIG largest request, CR crashes, ST stops; HI scans to the high-water mark; TMO any wait
 * may time out; FAIL the real call may fail; SH the first process has a share from the start; HALF also shares of half of the
 * room; RAISES false: no new shares; FIRST what does not fit at first is refused; CHG the slot of one that is charged 2 without
 * being asked. BUG_*: broken on purpose, must be found.
 */
#ifndef N
#define N 2          /* runners; each is a sequence of process incarnations */
#endif
#ifndef S
#define S N          /* slots */
#endif
#ifndef K
#define K 1          /* requests per incarnation */
#endif
#ifndef LIMIT
#define LIMIT 3
#endif
#ifndef CR
#define CR 1         /* crashes */
#endif
#ifndef ST
#define ST 0         /* SIGSTOPs for ever */
#endif
#ifndef BIG
#define BIG 2        /* request sizes 1..BIG */
#endif
#define IDS (N+CR+2)

byte asked[S], granted[S], gone[S];
byte share[S];                 /* +UNPROVEN; one atomic word */
#define UNPROVEN 16
bit raising[S];                /* of the process that has the slot; not shared */
byte ident[S];                 /* 0 free, else incarnation; one atomic word */
byte high; byte klock, qlock;             /* the kernel's record locks, of the region and of the queue: 0 or incarnation */
bool dead[IDS];                /* what the kernel knows of an incarnation */
byte inc[N];
byte nextinc = N;
bool killed[N], stopped[N];
byte crashes, stops;
/* ghosts */
byte charged; bool late[N];    /* without being asked; announced after that was done */
byte live;                     /* decided bytes of living processes */
byte mylive[N];
byte com;                      /* committed bytes not yet released or reaped */
byte comslot[S];
byte want[N];
bool just[N];                  /* since the last reap pass of this request: com+want>LIMIT was true */

#define J(q) if :: want[q] && com+want[q]>LIMIT -> just[q]=1 :: else fi
#if N==2
#define NOTE J(0); J(1)
#else
#define NOTE J(0); J(1); J(2)
#endif

inline die(q) { dead[inc[q]]=1; if :: klock==inc[q] -> klock=0 :: else fi; if :: qlock==inc[q] -> qlock=0 :: else fi; live=live-mylive[q]; mylive[q]=0; want[q]=0; just[q]=0 }

inline drop_row(r) {           /* idempotent; caller holds klock; owner of r is dead or none */
  x = asked[r];
  share[r]=0;
#ifdef BUG_ZERO
  atomic { asked[r]=0; com=com-comslot[r]; comslot[r]=0 };
  granted[r]=0; gone[r]=0;
#else
  atomic { gone[r]=x; com=com-comslot[r]; comslot[r]=0 };
  granted[r]=x; 
#endif
  x=0
}
inline reap(r) { drop_row(r); ident[r]=0 }

#ifdef HI
#define TOP high
#else
#define TOP S
#endif
#ifdef BUG_SHARE_UNCOUNTED
#define CLAIMED(net,t) net
#else
#define CLAIMED(net,t) (net>t -> net : t)
#endif
inline upper() {
  i=0; y=0; e=TOP;
  do
#ifdef BUG_SHARE_LATE
  :: i<e -> x=gone[i]; x=asked[i]-x; atomic { t=share[i]%UNPROVEN; y=y+CLAIMED(x,t); x=0; t=0; i++ }
#else
  :: i<e -> t=share[i]%UNPROVEN; x=gone[i]; atomic { x=asked[i]-x; y=y+CLAIMED(x,t); x=0; t=0; i++ }
#endif
  :: else -> break
  od; i=0; e=0
}
inline revoke() {
  i=0; e=TOP;
  do :: i<e && share[i]!=0 -> share[i]=0; i++ :: i<e && share[i]==0 -> i++ :: else -> break od; i=0; e=0
}
#ifdef BUG_REVOKE_UNSEEN
inline asked_only() {
  i=0; y=0; e=TOP;
  do
  :: i<e -> x=gone[i]; atomic { x=asked[i]-x; y=y+x; x=0; i++ }
  :: else -> break
  od; i=0; e=0
}
inline fit() {
  upper();
  if :: y>LIMIT -> asked_only(); revoke() :: else fi
}
#else
inline fit() {
  upper();
  if :: y>LIMIT -> y=0; revoke(); upper() :: else fi
}
#endif
#ifndef RAISES
#define RAISES true
#endif
/* y: the sum, within the limit; all the room is claimed, or after a revocation all there may be, or nothing */
inline raise() {
  if
  :: atomic { y<LIMIT && !raising[s] && RAISES -> raising[s]=1 };
     if :: atomic { w=LIMIT-y; y=0 }
#ifdef HALF
     :: atomic { w=(LIMIT-y)/2; y=0 }
#endif
     :: y=0; revoke(); w=LIMIT-n fi;
     x=gone[s]; atomic { w=w+asked[s]-x; x=0 };
     share[s]=w+UNPROVEN;
#ifdef BUG_SHARE_UNSEEN
     y=0;
#else
     upper();
#endif
#ifdef BUG_SHARE_RESTORED
     atomic { share[s]=(y<=LIMIT -> w : 0); raising[s]=0; w=0; y=0 }
#else
     atomic { if :: share[s]==w+UNPROVEN -> share[s]=(y<=LIMIT -> w : 0) :: else fi; raising[s]=0; w=0; y=0 }
#endif
  :: y=0
  fi
}
inline lower() {
  i=0; y=0; e=TOP;
#ifdef BUG_ONEPASS
  do :: i<e -> y=y+granted[i]; atomic { y=y-gone[i]; i++ } :: else -> break od; i=0; e=0
#else
  do :: i<e -> atomic { y=y+granted[i]; i++ } :: else -> break od; i=0; e=TOP;
  do :: i<e -> atomic { y=y-gone[i]; i++ } :: else -> break od; i=0; e=0
#endif
}
inline commit() {
  atomic { live=live+n; mylive[p]=mylive[p]+n; assert(live<=LIMIT); assert(!late[p] || live+charged<=LIMIT); y=0 };
#ifdef FAIL
  if
  :: atomic { granted[s]=granted[s]+n; com=com+n; comslot[s]=comslot[s]+n; NOTE }; h=h+n
  :: atomic { asked[s]=asked[s]-n; live=live-n; mylive[p]=mylive[p]-n }
  fi
#else
  atomic { granted[s]=granted[s]+n; com=com+n; comslot[s]=comslot[s]+n; NOTE }
  h=h+n
#endif
}
#ifdef TMO
#define TIMEOUT_LOCK :: goto unlocked
#define TIMEOUT_WAIT :: atomic { asked[s]=asked[s]-n; y=0 }; qlock=0; goto refused
#else
#define TIMEOUT_LOCK
#define TIMEOUT_WAIT
#endif

proctype P(byte p) {
  byte s, k, n, h, i, x, e, q, t; short y, w;
again:
  {
    /* ---- claim: one compare-and-swap on a free slot; only reaping needs the lock */
#ifdef TH                      /* two threads in slot 0, another process in slot 1; no deaths */
    s=p/2;
#else
    skip;
claim:
    s=0;
    do
    :: s<S ->
       if
#ifdef SH
       :: ident[s]==inc[p] -> break
#endif
       :: ident[s]==0 ->
#ifdef HI
          atomic { if :: high<s+1 -> high=s+1 :: else fi };
#endif
          if :: atomic { ident[s]==0 -> ident[s]=inc[p]; raising[s]=0 }; break :: ident[s]!=0 -> s++ fi
       :: ident[s]!=0 && ident[s]!=inc[p] -> s++
       fi
    :: s==S -> break
    od;
    if
    :: s==S ->
       if
       :: atomic { klock==0 -> klock=inc[p] }
#ifdef TMO
       :: goto out
#endif
       fi;
       i=0;
       do
       :: i<S && ident[i]!=0 && dead[ident[i]] -> reap(i); i++
       :: i<S && (ident[i]==0 || !dead[ident[i]]) -> i++
       :: i==S -> break
       od; i=0;
       klock=0; goto claim
    :: s<S
    fi;
#endif
    do
    :: k<K ->
       /* ---- reserve(n) */
       atomic { k++; just[p]=0 };
       if :: n=1 :: n=BIG fi;
       atomic { want[p]=n; NOTE; late[p]=(charged>0) };
#ifdef BUG_SHARE_EARLY
       t=share[s]; x=gone[s];
       asked[s]=asked[s]+n;
#else
       asked[s]=asked[s]+n;
       t=share[s]; x=gone[s];
#endif
#ifdef BUG_SHARE_UNPROVEN
       t=t%UNPROVEN;
#endif
       if
       :: t<UNPROVEN && asked[s]-x<=t -> atomic { x=0; t=0 }; commit(); goto done
       :: else -> atomic { x=0; t=0 }
       fi;
       fit();
       if
       :: y<=LIMIT -> raise(); commit(); goto done
       :: else -> y=0
       fi;
#ifdef BUG_KEEP
#else
       asked[s]=asked[s]-n;
#endif
#ifdef FIRST
       goto refused;
#endif
       /* refuse without the lock, if nobody who holds bytes is dead */
       do
       :: i<S && ident[i]!=0 && dead[ident[i]] -> break
       :: i<S && (ident[i]==0 || !dead[ident[i]]) -> i++
       :: i==S -> break
       od;
       if
       :: i==S -> atomic { i=0; just[p]=0; NOTE };
          lower();
          if
          :: y+n>LIMIT -> y=0; assert(just[p]);
#ifdef BUG_KEEP
             asked[s]=asked[s]-n;
#endif
             goto refused
          :: else -> y=0
          fi
       :: else -> i=0
       fi;
       if
       :: atomic { qlock==0 -> qlock=inc[p] }
       TIMEOUT_LOCK
       fi;
#ifdef BUG_KEEP
#else
       asked[s]=asked[s]+n;
#endif
look:  fit();
       if
       :: y<=LIMIT -> commit(); qlock=0; goto done
       :: else -> y=0
       fi;
       if                      /* never waited for: whoever has it reaps, or claims a slot */
       :: atomic { klock==0 -> klock=inc[p] }
       :: klock!=0 -> goto look
       TIMEOUT_WAIT
       fi;
       do
       :: i<S && ident[i]!=0 && dead[ident[i]] -> reap(i); i++
       :: i<S && (ident[i]==0 || !dead[ident[i]]) -> i++
       :: i==S -> break
       od;
       klock=0;
       atomic { i=0; just[p]=0; NOTE };
       lower();
       if
       :: y+n>LIMIT -> y=0; asked[s]=asked[s]-n; assert(just[p]); qlock=0; goto refused
       :: y+n<=LIMIT -> y=0; goto look
       TIMEOUT_WAIT
       fi;
#ifdef TMO
unlocked:
       asked[s]=asked[s]+n;
       /* without the lock nobody can be reaped: rows of the dead are left out, if they were theirs when read */
       revoke(); y=0; e=TOP;
       do
       :: i<e -> q=ident[i]; t=share[i]%UNPROVEN; x=gone[i]; w=asked[i]-x; w=CLAIMED(w,t); x=0; t=0;
          if
          :: q!=0 && dead[q] && ident[i]==q -> skip
          :: q==0 || !dead[q] || ident[i]!=q -> y=y+w
          fi; atomic { q=0; w=0; i++ }
       :: else -> break
       od; i=0; e=0;
       if :: y<=LIMIT -> commit(); goto done :: else -> y=0; asked[s]=asked[s]-n; goto refused fi;
#endif
refused: skip;
done:  skip; atomic { want[p]=0; just[p]=0; n=0 };
       /* ---- release at any time */
       if
       :: h>0 -> atomic { gone[s]=gone[s]+h; live=live-h; mylive[p]=mylive[p]-h; com=com-h; comslot[s]=comslot[s]-h; h=0 }
       :: skip
       fi
    :: k==K -> break
    od;
#ifdef TH
    s=0;k=0;h=0
#else
out: skip; atomic { die(p); s=0;k=0;h=0;i=0 }
#endif
         /* exit is death: the slot is left to the reaper */
  } unless {
    if
    :: atomic { killed[p] -> killed[p]=0; nextinc++; inc[p]=nextinc; s=0;k=0;n=0;h=0;i=0;x=0;y=0;e=0;q=0;w=0;t=0 }; goto again
#if ST>0
    :: stopped[p] -> 
endstop: false
#endif
    fi
  }
}
#define KILL(q) :: atomic { crashes<CR && !dead[inc[q]] && !killed[q] && !stopped[q] -> crashes++; die(q); killed[q]=1 }
#define STOP(q) :: atomic { stops<ST && !dead[inc[q]] && !killed[q] -> stops++; stopped[q]=1 }
#ifdef CHG
proctype Charger() {
  byte i, x, e, t; short y;
  asked[CHG]=asked[CHG]+2;
  upper();
#ifndef BUG_CHARGE_KEEPS
  if :: y>LIMIT -> revoke() :: else fi;
#endif
  atomic { granted[CHG]=granted[CHG]+2; com=com+2; charged=2; NOTE };
}
#endif
proctype Kernel() {
endk: do
  KILL(0)
  KILL(1)
#if N==3
  KILL(2)
#endif
#if ST>0
  STOP(0)
  STOP(1)
#if N==3
  STOP(2)
#endif
#endif
  od
}
init { atomic {
#ifdef TH
 ident[0]=1; ident[1]=3;
#endif
 inc[0]=1; inc[1]=2;
#ifdef SH                      /* the first process has been granted nothing yet and all of the limit as its share */
 ident[0]=1; high=1; share[0]=LIMIT;
#endif
#if N==3
 inc[2]=3; run P(2);
#endif
 run P(0); run P(1); run Kernel();
#ifdef CHG
 ident[CHG]=IDS-1;
#ifdef HI
 high=S;
#endif
 run Charger();
#endif
} }
