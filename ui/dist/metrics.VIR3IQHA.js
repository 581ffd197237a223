import"./c.HETSJI2I.js";import"./c.HFG4MQIL.js";import"./c.UGY44GSC.js";import"./c.4UMSPVMD.js";import"./c.FAPPGTHN.js";import"./c.GRC6Y3EM.js";
