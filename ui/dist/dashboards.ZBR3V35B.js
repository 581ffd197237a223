import"./c.TPRM2XTL.js";import"./c.APK6SYFM.js";import"./c.MOAVTL4V.js";import"./c.FAPPGTHN.js";import"./c.GRC6Y3EM.js";
