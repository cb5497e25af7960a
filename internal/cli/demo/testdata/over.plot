columns: calls in the second up to then; the cap is 3
digits:  calls that arrived in each 100 ms
  >3 ┤ ███████████                
   3 ┤ ███████████                
   2 ┤ ███████████                
   1 ┤ ██████████████████████    █
     └┬─────────┬─────────┬───────
      ·7··········1··············1
      0 s       1 s       2 s
