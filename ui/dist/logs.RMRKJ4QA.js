import"./c.NNEMVEM2.js";import"./c.I3COYGUG.js";import"./c.FAPPGTHN.js";import"./c.GRC6Y3EM.js";
