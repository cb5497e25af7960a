columns: calls in flight; the cap is 4
digits:  calls that arrived in each 100 ms
   4 ┤         █
   3 ┤  █      █
   2 ┤ ██      █
   1 ┤███      █
     └┬─────────
      111······1
      0 s
